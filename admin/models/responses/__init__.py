"""Responses of the admin API, a module for each subject, used by routes, pages and OpenAPI."""
