from leasehold.study import Run as Run
from leasehold.study import Scenario as Scenario
from leasehold.study import compare as compare
from leasehold.study import connect as connect
from leasehold.study import differences as differences
from leasehold.study import gantt as gantt
from leasehold.study import load as load
from leasehold.study import metrics as metrics
from leasehold.study import replicate as replicate
from leasehold.study import scenario as scenario
from leasehold.study import simulate as simulate
from leasehold.study import validate as validate

__version__: str
