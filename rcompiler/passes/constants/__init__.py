"""What depends on constants only, evaluated with numpy."""
