"""The site that ``make docs`` builds: pages of this folder, and a reference that is written from the code."""
