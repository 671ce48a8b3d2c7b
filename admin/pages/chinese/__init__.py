"""The texts of pages in Chinese, a module for each page: ``TEXTS`` by the English text."""
