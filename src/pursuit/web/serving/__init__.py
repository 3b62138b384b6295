"""A server for interviews: models are asked with over the web, and sessions are kept in a database."""
