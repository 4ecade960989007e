import { useState } from 'react';
import { Icon, type IconName } from '../ui/icons.tsx';

const themes = ['auto', 'light', 'dark'] as const;
type Theme = (typeof themes)[number];

const KEY = 'twinkeep.theme';
const icons: Readonly<Record<Theme, IconName>> = { auto: 'auto', light: 'sun', dark: 'moon' };
const names: Readonly<Record<Theme, string>> = { auto: 'as the system', light: 'light', dark: 'dark' };

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
    // A browser that keeps nothing shows it this once.
  }
}

export const applyStoredTheme = (): void => applyTheme(storedTheme());

/** Goes round: as the system, light, dark. */
export function ThemeSwitch() {
  const [theme, setTheme] = useState(storedTheme);
  const turn = (): void => {
    const next = themes[(themes.indexOf(theme) + 1) % themes.length] as Theme;
    applyTheme(next);
    setTheme(next);
  };
  return (
    <button type="button" className="icon-button" onClick={turn} title={`Colours: ${names[theme]}`}>
      <Icon name={icons[theme]} />
      <span className="unseen">Colours: {names[theme]}</span>
    </button>
  );
}
