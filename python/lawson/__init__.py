"""lawson: ONNX models as fused kernels on GPUs and CPUs.

    import lawson
    s = lawson.Session("net.onnx", device="auto")
    y, = s.run([x])                              # NumPy arrays in, NumPy arrays out

    s.bind(0, tensor); s.bind_output(0, result)  # DLPack (PyTorch, CuPy, JAX ...), zero copy
    s.enqueue(stream=pointer)                    # asynchronous, on the caller's CUDA stream

Nothing is compiled and nothing but the standard library is needed; NumPy is imported only when an
array has to be made. The library liblawson.so is looked for as $LAWSON_LIBRARY, beside this package,
in the build folders of a checkout, and where the system's loader looks.
"""
from ._library import Error, version
from ._session import Session, TensorInfo

__all__ = ["Error", "Session", "TensorInfo", "version"]


def __getattr__(name):
    if name == "__version__":  # the library's, which is loaded when it is first needed
        return version()
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
