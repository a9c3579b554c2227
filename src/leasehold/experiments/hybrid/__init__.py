"""Physical or virtual: the evaluation of Thamarai Selvi et al., section 5, with the matching of Leasehold."""
