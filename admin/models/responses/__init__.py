"""What the admin API answers, a module for each subject: routes make it, pages read it, OpenAPI tells it."""
