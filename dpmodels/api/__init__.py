"""Public functions of the package: each turns a call into a frozen request and runs it."""
