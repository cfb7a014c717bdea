"""Reading and building the IR that passes work on."""
