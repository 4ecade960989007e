import { useEffect, useRef, useState } from 'react';

const HIGHLIGHT_MS = 2_000;

/** Whether the value changed within the last 2 s, after the first render. */
export function useRecentChange(value: string): boolean {
  const before = useRef(value);
  const [isRecent, setRecent] = useState(false);
  useEffect(() => {
    if (before.current === value) return;
    before.current = value;
    setRecent(true);
    const timer = setTimeout(() => setRecent(false), HIGHLIGHT_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return isRecent;
}
