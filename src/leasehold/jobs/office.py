"""What the parts of the desk have in common: the settings, and everything that is kept between instants."""

from leasehold.jobs.book import Book
from leasehold.jobs.building import Images
from leasehold.jobs.floor import Floor
from leasehold.jobs.offers import Offers
from leasehold.jobs.queueing import WaitingLine
from leasehold.jobs.settings import JobSettings
from leasehold.jobs.warmth import Warmth
from leasehold.jobs.watching import Watching
from leasehold.matching.assignment import Solve
from leasehold.matching.nodes import Network


class Office:
    """Jobs, nodes, the queue, images, offers and experience, each in its own part."""

    def __init__(self, settings: JobSettings, network: Network, solve: Solve) -> None:
        self.settings = settings
        self.network = network
        self.solve = solve
        self.book = Book()
        self.floor = Floor(network)
        self.line = WaitingLine(settings)
        self.images = Images(settings, self.book)
        self.offers = Offers(settings)
        self.watching = Watching(settings.belief)
        self.warmth = Warmth(settings)
