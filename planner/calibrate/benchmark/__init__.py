"""An open test of predictors of training runs: rows without their results, predictions, and one scorer."""
