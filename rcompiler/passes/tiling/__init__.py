"""An rOperator as a tensor expression, and what its rTasks touch."""
