# What `yolo train key=value` does (read in ultralytics 8.4, cfg/__init__.py).
from t4lint_programs import given
from ultralytics import YOLO

settings = given("cfg")
YOLO(settings.get("model", "yolo11n.pt")).train(**settings)
