"""What each network of catalogue.json is fed with: a function a kind of input, which gives the feeds
of one or several steps, and what must come out where that is known beforehand.

A feed is a dictionary of arrays by the network's input names. Inputs that "state" of the catalogue
names are filled by the runner from the outputs of the step before; the first step gives them.
"""
import functools
import os

import numpy as np
import signals

RATE = 16000
# [CLS] the quick brown fox jumps over the lazy dog . [SEP], in BERT's uncased vocabulary.
SENTENCE = [101, 1996, 4248, 2829, 4419, 14523, 2058, 1996, 13971, 3899, 1012, 102]
# translate English to German : The house is wonderful . </s>, in T5's.
REQUEST = [13959, 1566, 12, 2968, 10, 37, 629, 19, 1627, 5, 1]
LINES = ["FUSION 0123", "LAWSON 4567"]


def f32(array):
    return np.ascontiguousarray(array, np.float32)


@functools.lru_cache(maxsize=None)
def voice(seconds):
    return signals.speech(seconds, RATE)


# ---- sound --------------------------------------------------------------------------------------


def vad(network):
    """Windows of 32 ms behind 4 ms of what came before, one after the other, state carried along."""
    sound = np.concatenate([np.zeros(RATE // 4, np.float32), voice(1.0)])
    for n in range(8):
        at = 512 * (3 * n + 2)
        feed = {"input": sound[None, at - 64:at + 512]}
        if n == 0:
            feed["state"] = np.zeros((2, 1, 128), np.float32)
        if "sr" in network["inputs"]:
            feed["sr"] = np.array(RATE, np.int64)
        yield feed


def vad_sequence(_):
    """The same windows as the rows of one input."""
    sound, rows = voice(1.0), 24
    windows = np.stack([sound[512 * n:512 * n + 576] for n in range(rows)])
    zero = np.zeros((1, 1, 128), np.float32)
    yield {"input": windows, "h": zero, "c": zero}


def pitch(_):
    tones = signals.melody([220.0], 1.0, RATE)
    tones += 0.003 * f32(signals.random(9).standard_normal(len(tones)))
    yield {"audio": tones[None], "fmin": np.array(46.875, np.float32),
           "fmax": np.array(2093.75, np.float32)}


def pitch_is_220(outputs):
    middle = outputs["pitch"][0, 5:-5]
    return abs(np.median(middle) - 220) < 4, f"median pitch {np.median(middle):.1f} Hz of 220"


def notes(_):
    sound = signals.melody([261.63, 329.63, 392.0, 523.25], 0.6, 22050)
    padded = np.pad(sound, (0, 43844 - len(sound) % 43844))[:43844]
    yield {"serving_default_input_2:0": padded[None, :, None]}


def waveform(_):
    sound = voice(9.02)[:144160]
    yield {"input_1": sound[None]}


def spectrogram(_):
    power = np.abs(signals.spectra(voice(9.06), 320, 160)) ** 2
    yield {"input_1": f32(np.log10(np.maximum(power[:901], 1e-12)))[None]}


def mel_120(_):
    yield {"input_1": signals.log_mel(voice(9.06), 120, 320, 160, RATE)[None, :900]}


def echo(network):
    """Far end, microphone and enhanced signal as mel spectrograms."""
    far, near = voice(2.0), np.roll(voice(2.0), 4000)
    three = [far, near + 0.3 * np.roll(far, 800), near + 0.05 * far]
    mels = [signals.log_mel(sound, 160, 512, 256, RATE)[:100] for sound in three]
    width = network["inputs"]["h0"][-1]
    yield {"input": np.stack(mels)[None], "h0": np.zeros((4, 1, width), np.float32)}


def losses(_):
    sound = voice(2.0).copy()
    sound[8000:8320] = 0  # a lost packet
    power = np.abs(signals.spectra(sound, 512, 256)) ** 2
    yield {"degraded_audio": f32(np.log(np.maximum(power[:100], 1e-9)))[None, None],
           "rater_embed": f32(signals.random(5).standard_normal((1, 64)))}


def turn(_):
    """Eight seconds as Whisper's encoder takes them."""
    mel = signals.log_mel(np.pad(voice(3.0), (5 * RATE + 400, 0)), 80, 400, 160, RATE)
    yield {"input_features": f32(mel[:800].T)[None]}


def eeg_windows(_):
    signal = signals.eeg(31, 250)
    bands = np.abs(signals.spectra(np.pad(signal, 125), 250, 1))[:7500, 3:18]
    yield {"raw_signal": signal[None, None, :7500],
           "spectrogram": f32((bands / bands.max()).T)[None]}


def eeg_spectrogram(_):
    bands = np.abs(signals.spectra(signals.eeg(60, 200), 400, 200))[:50, :100]
    scaled = np.log(bands + 1e-3)
    yield {"x": f32(((scaled - scaled.mean()) / scaled.std()).T)[None]}


# ---- pictures -----------------------------------------------------------------------------------


def colour(grey):
    """Three equal channels first, -1 .. 1."""
    return f32(np.repeat((grey * 2 - 1)[None], 3, 0))[None]


def page(network):
    yield {network["input"]: colour(signals.page(LINES, 320, 48))}


def text_is_found(outputs):
    heat = next(iter(outputs.values()))[0, 0]
    line, below = heat[20:68, 30:250].mean(), heat[200:, :].mean()
    return line > 0.2 > 0.05 > below, f"mean heat {line:.2f} in the first line, {below:.3f} below"


def line(network):
    yield {network["input"]: colour(signals.fit(signals.text(LINES[0], 48), 48, 480))}


def line_is_read(outputs, network):
    """The best class of every step, repeats and blanks dropped; the alphabet is in the network."""
    best = next(iter(outputs.values()))[0].argmax(-1)
    steps = [c for n, c in enumerate(best) if c != 0 and (n == 0 or best[n - 1] != c)]
    letters = network["metadata"]["character"].split("\n")
    said = "".join(letters[c - 1] if c <= len(letters) else " " for c in steps)
    return "".join(said.split()) == LINES[0].replace(" ", ""), f"read '{said}'"


def line_upside_down(network):
    picture = signals.fit(signals.text(LINES[0], 48), 48, 192)
    yield {network["input"]: np.concatenate([colour(picture), colour(picture[::-1, ::-1])])}


def captcha(_):
    yield {"image": f32(np.repeat(signals.fit(signals.text("4 7 1", 60), 60, 160)[None], 3, 0))[None]}


def grey_line(_):
    yield {"input1": f32(signals.fit(signals.text(LINES[1], 64), 64, 480))[None, None]}


def photograph_bgr(_):
    picture = signals.photograph(224)[None, :, :, ::-1] * 255 - np.array([104, 117, 123])
    yield {"input:0": f32(picture)}


def photograph(network):
    _, _, height, _ = network["inputs"]["images"]
    scale = 255 if network.get("scale255") else 1
    yield {"images": f32(signals.photograph(height).transpose(2, 0, 1))[None] * scale}


# ---- bytes and text -----------------------------------------------------------------------------


def source_file(_):
    """The beginning and the end of a Python file: this one."""
    with open(os.path.abspath(__file__), "rb") as file:
        data = file.read().strip()
    first, last = data[:1024], data[-1024:]
    yield {"bytes": np.frombuffer(first + last, np.uint8).astype(np.int32)[None]}


def it_is_python(outputs, network):
    scores = next(iter(outputs.values()))[0]
    best = int(scores.argmax())
    return best == network["python"], f"label {best} ({scores.max():.2f})"


def sentence(network):
    ids = np.array([SENTENCE], np.int64)
    feed = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    if "token_type_ids" in network["inputs"]:
        feed["token_type_ids"] = np.zeros_like(ids)
    yield feed


def request(_):
    ids = np.array([REQUEST], np.int64)
    yield {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def reply(_):
    """A decoder's first steps, from what an encoder could have said."""
    hidden = f32(0.2 * signals.random(6).standard_normal((1, len(REQUEST), 512)))
    mask = np.ones((1, len(REQUEST)), np.int64)
    for tokens in ([0], [0, 644], [0, 644, 4598]):
        yield {"input_ids": np.array([tokens], np.int64), "encoder_hidden_states": hidden,
               "encoder_attention_mask": mask}


def name_letters(_):
    """A name by the letters' numbers, behind a country and a role."""
    ids = np.array([[1, 9, 27, 40, 45, 52, 60, 61, 2]], np.int64)
    yield {"src": ids, "src_mask": np.zeros(ids.shape, bool)}


def name_decoder(_):
    rng = signals.random(7)
    for n in (1, 2, 5):
        yield {"prefix": np.array([[1, 70, 66, 79, 70]], np.int64)[:, :n],
               "memory": f32(0.3 * rng.standard_normal((1, 9, 256))),
               "src_mask": np.zeros((1, 9), bool),
               "hidden": f32(0.3 * rng.standard_normal((1, 2, 256)))}


def letters(network):
    name, = network["inputs"]
    yield {name: np.array([[5, 12, 8, 21, 3, 17, 9, 14, 2, 11, 6, 19]], np.int64)}


def voice_filter(_):
    mel = np.log(np.abs(signals.spectra(voice(1.2), 1022, 256)) ** 2 + 1e-6)[:50]
    d = signals.random(8).standard_normal((1, 256))
    zero = np.zeros((3, 1, 512), np.float32)
    yield {"stacked_logmel": f32(mel)[None], "dvec": f32(d / np.linalg.norm(d)), "h0": zero,
           "c0": zero}


def voice_print(_):
    mel = signals.log_mel(voice(1.2), 40, 400, 200, RATE)[:80]
    yield {"mel_window": f32(mel)[None]}
