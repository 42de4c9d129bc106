"""What all tests share: a property test never fails because the machine is busy."""

from hypothesis import settings

settings.register_profile("p2pmoe", deadline=None)
settings.load_profile("p2pmoe")
