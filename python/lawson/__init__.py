"""lawson: ONNX models as fused kernels on GPUs and CPUs.

    import lawson
    s = lawson.Session("net.onnx", device="auto")
    y, = s.run([x])                              # NumPy arrays in, NumPy arrays out
    y, = s.run(["y"], {"x": x})                  # by name, in ONNX Runtime's form

    s.bind("x", tensor); s.bind_output("y", result)  # DLPack (PyTorch, CuPy, JAX ...), zero copy
    s.enqueue(stream=pointer)                    # asynchronous, on the caller's CUDA stream

`lawson.backend` is the same as a backend of the onnx package.

Nothing but the standard library is needed; NumPy is imported only when an array has to be made. The
library liblawson.so is looked for as $LAWSON_LIBRARY, beside this package, in the build folders of a
checkout, and where the system's loader looks.
"""
from ._library import Error, version
from ._model import TensorInfo
from ._session import IOBinding, Session
from ._tensor import Tensor

__all__ = ["Error", "IOBinding", "Session", "Tensor", "TensorInfo", "version"]


def __getattr__(name: str) -> str:
    if name == "__version__":  # the library's, which is loaded when it is first needed
        return version()
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
