"""The two ways in which a command ends badly."""


class UserError(Exception):
    """Something a person wrote or set up wrongly. Shown as one line; exit code 2."""


class WorkError(Exception):
    """Work that was started rightly and failed. Shown as one line; exit code 1."""
