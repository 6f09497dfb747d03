"""Settings page: theme, language, size of text. The window keeps these itself."""

from PySide6.QtWidgets import QComboBox, QFormLayout, QSpinBox, QWidget
from typing_extensions import override

from desktop.gui import i18n
from desktop.gui.i18n import LANGUAGES, NAMES, tr
from desktop.gui.theme import MAX_FONT_SIZE, MIN_FONT_SIZE, THEME_MODES, Theme
from desktop.gui.widgets.base import PlainLabel, TranslatedWidget
from desktop.gui.window_settings import WindowSettings


class AppearancePage(TranslatedWidget):
    """Everything is applied at once."""

    def __init__(
        self, *, theme: Theme, settings: WindowSettings, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._look = theme
        self._settings = settings
        self.mode = QComboBox(self)
        self.language = QComboBox(self)
        self.size_field = QSpinBox(self)
        self.size_field.setRange(MIN_FONT_SIZE, MAX_FONT_SIZE)
        self._labels = [PlainLabel(parent=self) for _ in range(3)]
        form = QFormLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.setVerticalSpacing(10)
        form.setHorizontalSpacing(16)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        fields = (self.mode, self.language, self.size_field)
        for label, field in zip(self._labels, fields, strict=True):
            form.addRow(label, field)
        for mode in THEME_MODES:
            self.mode.addItem(mode, mode)
        for known in LANGUAGES:
            self.language.addItem(NAMES[known], known)
        self.mode.activated.connect(self._mode_chosen)
        self.language.activated.connect(self._language_chosen)
        self.size_field.valueChanged.connect(self._size_chosen)
        theme.changed.connect(self._show)
        self.retranslate()

    @override
    def retranslate(self) -> None:
        texts = (tr("Theme"), tr("Language"), tr("Size of text"))
        fields = (self.mode, self.language, self.size_field)
        for label, field, text in zip(self._labels, fields, texts, strict=True):
            label.setText(text)
            field.setAccessibleName(text)
        names = {"system": tr("As the system"), "light": tr("Light"), "dark": tr("Dark")}
        for index, mode in enumerate(THEME_MODES):
            self.mode.setItemText(index, names[mode])
        self.size_field.setSuffix(tr(" px"))
        self._show()

    def _show(self) -> None:
        self.mode.setCurrentIndex(self.mode.findData(self._look.mode))
        self.language.setCurrentIndex(self.language.findData(i18n.language()))
        self.size_field.blockSignals(True)
        self.size_field.setValue(self._look.font_size)
        self.size_field.blockSignals(False)

    def _mode_chosen(self) -> None:
        mode = THEME_MODES[self.mode.currentIndex()]
        self._settings.theme = mode
        self._look.set_mode(mode)

    def _language_chosen(self) -> None:
        chosen = LANGUAGES[self.language.currentIndex()]
        self._settings.language = chosen
        if chosen != i18n.language():
            i18n.set_language(chosen)
            i18n.announce()

    def _size_chosen(self, size: int) -> None:
        self._settings.font_size = size
        self._look.set_font_size(size)
