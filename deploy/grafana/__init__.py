"""Dashboards of Grafana, made from code: ``python -m deploy.grafana`` writes them."""
