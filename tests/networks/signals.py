"""Inputs that tests make themselves: speech from a pulse train and formants, melodies, an EEG, text as
pictures, photographs of shapes, and the features that audio networks take. All deterministic."""
import numpy as np

# Frequencies of the first three formants of vowels (Peterson and Barney 1952, men).
VOWELS = {"a": (730, 1090, 2440), "i": (270, 2290, 3010), "u": (300, 870, 2240),
          "e": (530, 1840, 2480), "o": (570, 840, 2410)}


def random(seed=0):
    return np.random.default_rng(seed)


# ---- sound --------------------------------------------------------------------------------------


def resonator(signal, frequency, bandwidth, rate):
    """A two-pole resonance."""
    r = np.exp(-np.pi * bandwidth / rate)
    a1, a2 = 2 * r * np.cos(2 * np.pi * frequency / rate), -r * r
    out, y1, y2 = np.empty_like(signal), 0.0, 0.0
    for n, x in enumerate(signal):
        out[n] = y = x + a1 * y1 + a2 * y2
        y1, y2 = y, y1
    return out / max(np.abs(out).max(), 1e-9)


def vowel(name, seconds, rate, pitch):
    """Glottal pulses of a falling pitch through the vowel's formants."""
    n = int(seconds * rate)
    f0 = pitch * (1.08 - 0.16 * np.arange(n) / n)
    phase = np.cumsum(f0 / rate)
    pulses = np.diff(np.floor(phase), prepend=0) + 0.02 * random(1).standard_normal(n)
    sound = sum(gain * resonator(pulses, f, 60 + 40 * k, rate)
                for k, (f, gain) in enumerate(zip(VOWELS[name], (1.0, 0.6, 0.3))))
    edge = np.minimum(1, np.minimum(np.arange(n), np.arange(n)[::-1]) / (0.03 * rate))
    return sound * edge


def speech(seconds, rate=16000, pitch=120.0):
    """Syllables: a burst of noise, then a vowel; between the words a pause."""
    parts, rng, syllable = [], random(2), 0
    while sum(map(len, parts)) < seconds * rate:
        noise = rng.standard_normal(int(0.06 * rate)) * 0.08
        length = 0.14 + 0.02 * (syllable % 3)
        parts += [noise, 0.4 * vowel("aieou"[syllable * 2 % 5], length, rate, pitch)]
        syllable += 1
        if syllable % 4 == 0:
            parts.append(np.zeros(int(0.2 * rate)))
    sound = np.concatenate(parts)[:int(seconds * rate)]
    return (sound + 0.001 * rng.standard_normal(len(sound))).astype(np.float32)


def melody(notes, seconds_each, rate):
    """Notes (Hz) one after the other, six harmonics each."""
    t = np.arange(int(seconds_each * rate)) / rate
    decay = np.exp(-2 * t) * np.minimum(1, t / 0.01)
    return np.concatenate([
        0.3 * decay * sum(np.sin(2 * np.pi * f * h * t) / h for h in range(1, 7))
        for f in notes]).astype(np.float32)


def spectra(sound, size, hop):
    """Complex spectra of Hann-windowed frames, one a row."""
    count = 1 + (len(sound) - size) // hop
    frames = sound[np.arange(count)[:, None] * hop + np.arange(size)]
    return np.fft.rfft(frames * np.hanning(size))


def mel_bands(count, size, rate):
    """Triangles on the mel scale, 2595 log10(1 + f/700), over the bins of an FFT of |size|."""
    top = 2595 * np.log10(1 + rate / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, count + 2) / 2595) - 1)
    f = np.fft.rfftfreq(size, 1 / rate)
    rise = (f - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - f) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(rise, fall))


def log_mel(sound, count, size, hop, rate):
    """Frames by bands, in decibels below the loudest, scaled to about -1 .. 1."""
    power = np.abs(spectra(sound, size, hop)) ** 2 @ mel_bands(count, size, rate).T
    decibel = 10 * np.log10(np.maximum(power, 1e-10) / power.max())
    return ((np.maximum(decibel, -80) + 40) / 40).astype(np.float32)


def eeg(seconds, rate):
    """Pink noise with two sleep spindles (13 Hz)."""
    n = int(seconds * rate)
    spectrum = np.fft.rfft(random(3).standard_normal(n))
    spectrum[1:] /= np.sqrt(np.arange(1, len(spectrum)))
    signal = np.fft.irfft(spectrum, n)
    t = np.arange(n) / rate
    for at in (0.3 * seconds, 0.7 * seconds):
        signal += 3 * signal.std() * np.exp(-((t - at) / 0.4) ** 2) * np.sin(2 * np.pi * 13 * t)
    return ((signal - signal.mean()) / signal.std()).astype(np.float32)


# ---- pictures -----------------------------------------------------------------------------------

# Letters and digits as seven rows of five dots, two hexadecimal digits a row.
_FONT = {
    "A": "0e11111f111111", "F": "1f10101e101010", "I": "0e04040404040e", "L": "1010101010101f",
    "N": "11191915131311", "O": "0e11111111110e", "S": "0f10100e01011e", "U": "1111111111110e",
    "W": "1111111515150a", "0": "0e11131519110e", "1": "040c040404040e", "2": "0e11010204081f",
    "3": "1f02040201110e", "4": "02060a121f0202", "5": "1f101e0101110e", "6": "0608101e11110e",
    "7": "1f010204080808", "8": "0e11110e11110e", "9": "0e11110f01020c"}


def glyph(letter):
    rows = bytes.fromhex(_FONT[letter])
    return np.array([[row >> (4 - x) & 1 for x in range(5)] for row in rows], np.float32)


def text(words, height):
    """Dark letters on white, |height| pixels high, as a grey picture of 0 .. 1."""
    scale = max(1, int(height * 0.7) // 7)
    gap, blank = np.zeros((7, 1), np.float32), np.zeros((7, 3), np.float32)
    columns = [blank] + [part for c in words
                         for part in ((blank,) if c == " " else (glyph(c), gap))] + [blank]
    ink = np.kron(np.concatenate(columns, 1), np.ones((scale, scale), np.float32))
    top = (height - ink.shape[0]) // 2
    ink = np.pad(ink, ((top, height - ink.shape[0] - top), (0, 0)))
    soft = (ink + np.roll(ink, 1, 0) + np.roll(ink, 1, 1) + np.roll(ink, -1, 0)) / 4
    return 1 - 0.9 * soft


def page(lines, size, line_height):
    """A white page with lines of text, size x size."""
    sheet = np.ones((size, size), np.float32)
    for n, words in enumerate(lines):
        line = text(words, line_height)[:, :size - 20]
        top = 20 + n * (line_height + 20)
        sheet[top:top + line_height, 10:10 + line.shape[1]] = line
    return sheet


def fit(picture, height, width):
    """The picture cut or padded with white to this size."""
    out = np.ones((height, width), np.float32)
    h, w = min(height, picture.shape[0]), min(width, picture.shape[1])
    out[:h, :w] = picture[:h, :w]
    return out


def photograph(size):
    """Sky, ground, a ball with a highlight and some grain: size x size x 3, 0 .. 1."""
    y, x = np.mgrid[0:size, 0:size] / size
    sky = np.stack([0.4 + 0.3 * y, 0.6 + 0.2 * y, 0.9 - 0.1 * y], -1)
    ground = np.stack([0.35 + 0 * x, 0.5 - 0.2 * x, 0.2 + 0 * x], -1)
    picture = np.where((y > 0.65)[..., None], ground, sky)
    r = np.hypot(x - 0.45, y - 0.55) / 0.22
    light = np.clip(1.2 - np.hypot(x - 0.38, y - 0.47) / 0.3, 0.1, 1)
    picture = np.where((r < 1)[..., None], light[..., None] * np.array([0.9, 0.25, 0.15]), picture)
    grain = 0.02 * random(4).standard_normal(picture.shape)
    return np.clip(picture + grain, 0, 1).astype(np.float32)
