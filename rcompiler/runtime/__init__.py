"""Run compiled models. Imports only numpy and the standard library."""
