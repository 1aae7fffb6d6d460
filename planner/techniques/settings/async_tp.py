"""Messages of tensor parallelism in pieces beside their products, by PyTorch's compiler."""

from planner.techniques.settings.family import Setting

ENTRY = Setting(
    name="async_tp",
    about="whether the compiler cuts messages of tensor parallelism into pieces beside the products that "
    "they feed (PyTorch's symmetric memory)",
    cite="https://github.com/pytorch/torchtitan/blob/v0.2.2/torchtitan/distributed/tensor_parallel.py, "
    "maybe_enable_async_tp",
    # The share that torchtitan's published pairs with and without it bear out.
    values={"off": {"tp_exposed": 1.0}, "on": {"tp_exposed": 0.74}},
    scanned=("on",),
    evidence={"on": "torchtitan's pairs of Llama 3 8B and 70B on H100 with and without it"},
)
