"""What any part may use: processes that work beside this one, folders of one user, shapes."""
