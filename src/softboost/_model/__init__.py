"""What a fitted model is: members, the ensemble that predicts, bounds, and what learning on keeps."""
