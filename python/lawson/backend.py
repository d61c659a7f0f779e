"""lawson as a backend of the onnx package (onnx.backend.base.Backend):

    import lawson.backend as backend
    rep = backend.prepare(onnx.load("net.onnx"), device="CUDA:1")
    y, = rep.run([x])

and for its tests: onnx.backend.test.BackendTest(lawson.backend, __name__). Devices are "CPU" and
"CUDA" with or without a number. Keyword arguments of prepare() are those of lawson.Session.
"""
from __future__ import annotations

import tempfile
from typing import Any, Dict, Optional, Sequence, Tuple

import numpy
import onnx
import onnx.helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from ._deciding import says_so
from ._library import UNSUPPORTED, Error
from ._model import has_device, inspect
from ._session import Session

# Types that NumPy lacks come as raw bits; the onnx package has them from ml_dtypes.
_NAMES_IN_ML_DTYPES = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}

# lawson's types in NumPy's words, for elements that lawson carries in a wider type: 4-bit numbers ...
_NUMPY_NAMES = {"f16": "float16", "f32": "float32", "f64": "float64", "i8": "int8", "u8": "uint8"}


def _device_name(device: str) -> str:
    """ "CUDA:1" -> "cuda:1"."""
    parsed = Device(device)
    return "cpu" if parsed.type == DeviceType.CPU else f"cuda:{parsed.device_id}"


def _typed(array: Any, dtype: str, wanted: Any) -> Any:
    """A result in the type that the model declares."""
    name = _NAMES_IN_ML_DTYPES.get(dtype)
    if name is not None:
        import ml_dtypes
        array = array.view(getattr(ml_dtypes, name))
    return array if wanted is None or array.dtype == wanted else array.astype(wanted)


def _carried(array: Any, dtype: str) -> Any:
    """An input whose elements NumPy has from ml_dtypes in the type that lawson carries them in."""
    array = numpy.asarray(array)
    is_foreign = array.dtype.kind == "V" or array.dtype.name.startswith(("int4", "uint4", "int2",
                                                                          "uint2", "float"))
    wanted = _NUMPY_NAMES.get(dtype)
    if not is_foreign or wanted is None or array.dtype.name in _NUMPY_NAMES.values():
        return array
    return array.astype(wanted)


def _declared(port: Any) -> Any:
    """The NumPy type of an output, or None where the model does not say."""
    elem = port.type.tensor_type.elem_type
    return onnx.helper.tensor_dtype_to_np_dtype(elem) if elem else None


def _is_tensor(port: Any) -> bool:
    return port.type.WhichOneof("value") in (None, "tensor_type")


class LawsonRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, session: Session, model: Any) -> None:
        self.session = session
        self._types = {port.name: _declared(port) for port in model.graph.output}
        self._outputs = namedtupledict("Outputs", [info.name for info in session.outputs])

    def run(self, inputs: Any, **kwargs: Any) -> Tuple[Any, ...]:
        """Runs on |inputs|: arrays in the model's order, a dictionary by name, or the one array of a
        model with one input. Returns a named tuple of NumPy arrays."""
        if kwargs:
            raise TypeError("run() knows no " + ", ".join(sorted(kwargs)))
        if isinstance(inputs, numpy.ndarray):
            inputs = [inputs]
        ports = self.session.inputs
        if isinstance(inputs, dict):
            types = {info.name: info.dtype for info in ports}
            results = self.session.run({name: _carried(array, types.get(name, ""))
                                        for name, array in inputs.items()})
        else:
            inputs = list(inputs)
            types_in_order = [info.dtype for info in ports] + [""] * len(inputs)
            results = self.session.run([_carried(*pair) for pair in zip(inputs, types_in_order)])
        return self._outputs(*[_typed(array, info.dtype, self._types.get(info.name))
                               for array, info in zip(results, self.session.outputs)])


class LawsonBackend(Backend):
    """The class behind the functions of this module."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether lawson has the operators that the model needs, and inputs and outputs are tensors.
        Compiles nothing."""
        if not all(map(_is_tensor, [*model.graph.input, *model.graph.output])):
            return False
        with tempfile.NamedTemporaryFile(prefix="lawson-", suffix=".onnx") as file:
            file.write(model.SerializeToString())
            file.flush()
            summary = inspect(file.name, [])
            return summary.status != UNSUPPORTED or says_so(summary.problem)

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> LawsonRep:
        """Compiles a ModelProto."""
        super().prepare(model, device)
        others = [port.name for port in [*model.graph.input, *model.graph.output]
                  if not _is_tensor(port)]
        if others:
            raise Error(UNSUPPORTED, "inputs and outputs are tensors here; sequences and optionals "
                        "are: " + ", ".join(others))
        session = Session(model.SerializeToString(), device=_device_name(device), **kwargs)
        return LawsonRep(session, model)

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU",
                  **kwargs: Any) -> Tuple[Any, ...]:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node: Any, inputs: Any, device: str = "CPU",
                 outputs_info: Optional[Sequence[Tuple[Any, Tuple[int, ...]]]] = None,
                 **kwargs: Any) -> Tuple[Any, ...]:
        """Runs one node. |inputs| are arrays in the order of its inputs that have names, or a
        dictionary; opset_version= chooses its operator set, the newest otherwise."""
        super().run_node(node, inputs, device, outputs_info, **kwargs)
        opset = kwargs.pop("opset_version", None)
        model = _node_model(node, _by_name(node, inputs), outputs_info, opset)
        return cls.run_model(model, _by_name(node, inputs), device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        try:
            name = _device_name(device)
        except (AttributeError, ValueError):  # of Device, for what it does not know
            return False
        return name == "cpu" or has_device(name)


def _by_name(node: Any, inputs: Any) -> Dict[str, Any]:
    if isinstance(inputs, dict):
        return dict(inputs)
    names = list(dict.fromkeys(name for name in node.input if name))
    return {name: numpy.asarray(array) for name, array in zip(names, inputs)}


def _node_model(node: Any, feed: Dict[str, Any],
                outputs_info: Optional[Sequence[Tuple[Any, Tuple[int, ...]]]],
                opset: Optional[int]) -> Any:
    """A model of this node alone."""
    def port(name: str, dtype: Any, shape: Sequence[int]) -> Any:
        elem = onnx.helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype))
        return onnx.helper.make_tensor_value_info(name, elem, shape)

    named = [name for name in node.output if name]
    if outputs_info is not None:
        outputs = [port(name, *info) for name, info in zip(named, outputs_info)]
    else:
        outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in named]
    graph = onnx.helper.make_graph(
        [node], node.op_type, [port(name, a.dtype, a.shape) for name, a in feed.items()], outputs)
    opsets = [onnx.helper.make_opsetid("", opset or onnx.defs.onnx_opset_version())]
    if node.domain:
        opsets.append(onnx.helper.make_opsetid(node.domain, 1))
    model = onnx.helper.make_model(graph, opset_imports=opsets)
    if outputs_info is None and not node.domain:
        model = onnx.shape_inference.infer_shapes(model)
    return model


is_compatible = LawsonBackend.is_compatible
prepare = LawsonBackend.prepare
run_model = LawsonBackend.run_model
run_node = LawsonBackend.run_node
supports_device = LawsonBackend.supports_device
