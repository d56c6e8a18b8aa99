"""Admission through `headgate.Books` on NVFlare: `AdmissionController` on the server,
`Admissions` in a client's script.
"""

from headgate.nvflare.admissions import META, Admissions
from headgate.nvflare.controller import AdmissionController

__all__ = ["META", "AdmissionController", "Admissions"]
