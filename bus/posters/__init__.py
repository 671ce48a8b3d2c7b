"""The one HTTP poster: asyncio.Protocol and httptools, no client library in between."""
