"""Ways into other people's programs: standards of health care, language models, survey tools and free text."""
