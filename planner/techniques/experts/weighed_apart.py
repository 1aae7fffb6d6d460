"""torchtitan's where it is not compiled: what came back is multiplied by scores in fp32."""

from planner.techniques.experts.family import ExpertCode

ENTRY = ExpertCode(
    name="weighed-apart",
    cite="torchtitan b5bcd76c: torchtitan/models/common/token_dispatcher.py, combine",
    result_bytes=4.0,
    kept_apart=True,
)
