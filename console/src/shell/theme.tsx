import { useState } from 'react';
import { Icon, type IconName } from '../ui/icons.tsx';

const themes = ['auto', 'light', 'dark'] as const;
type Theme = (typeof themes)[number];

const KEY = 'twinkeep.theme';
const icons: Readonly<Record<Theme, IconName>> = { auto: 'auto', light: 'sun', dark: 'moon' };
const names: Readonly<Record<Theme, string>> = { auto: 'system', light: 'light', dark: 'dark' };

function storedTheme(): Theme {
  try {
    return themes.find((theme) => theme === localStorage.getItem(KEY)) ?? 'auto';
  } catch {
    return 'auto';
  }
}

function applyTheme(theme: Theme): void {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Without storage the theme lasts until the page is closed.
  }
}

export const applyStoredTheme = (): void => applyTheme(storedTheme());

/** Cycles through system, light and dark. */
export function ThemeSwitch() {
  const [theme, setTheme] = useState(storedTheme);
  const cycle = (): void => {
    const next = themes[(themes.indexOf(theme) + 1) % themes.length] as Theme;
    applyTheme(next);
    setTheme(next);
  };
  return (
    <button type="button" className="icon-button" onClick={cycle} title={`Theme: ${names[theme]}`}>
      <Icon name={icons[theme]} />
      <span className="unseen">Theme: {names[theme]}</span>
    </button>
  );
}
