"""mix150: 152 languages of varied text into English, against 152 bilingual models."""
