"""The site over HTTP.

server      /health, /metrics, /status, and the limits on connections: `HttpServer`
metrics     counters and gauges in Prometheus' format
answers     JSON and error responses
api         the log and groups, for programs in any language, and its OpenAPI description
dashboard   the page that shows the cluster, and what it asks of the sites

Only `node` imports from here, and only where `http.address` is set: the packages take long to load.
"""
