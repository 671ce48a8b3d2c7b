"use strict";

// The document stands beside this page, also where a proxy has put the bus below a path of its own. Who is logged in to
// the pages tries operations as that person: a change shows the session's token.
(async () => {
  const session = await fetch("api/v1/session", { cache: "no-store" }).catch(() => null);
  const csrf = session?.ok ? (await session.json()).csrf : null;
  SwaggerUIBundle({
    url: "openapi.json",
    dom_id: "#api",
    deepLinking: true,
    docExpansion: "list",
    filter: true,
    requestInterceptor: (request) => {
      if (csrf) request.headers["X-CSRF-Token"] = csrf;
      return request;
    },
  });
})();
