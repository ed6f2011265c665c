"""Catalogues of messages: of applications, and bilingual files of translators."""
