import { useId } from 'react';

const paths = {
  home: 'M3 11.5 12 4l9 7.5M5.5 10v9.5h13V10M10 19.5v-5h4v5',
  dashboard: 'M4 4h7v9H4zM14 4h6v5h-6zM14 12h6v8h-6zM4 16h7v4H4z',
  actors:
    'M12 5.5m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0M5 18m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0M19 18m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0M10.8 7.8 6.3 15.7M13.2 7.8l4.5 7.9M7.5 18h9',
  device: 'M9 17.5h6M10 20.5h4M8.5 14.5a6 6 0 1 1 7 0c-.6.5-.9 1.2-1 2h-5c-.1-.8-.4-1.5-1-2Z',
  place:
    'M12 21c4-4.5 6.5-8 6.5-11a6.5 6.5 0 1 0-13 0c0 3 2.5 6.5 6.5 11ZM12 10m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0',
  group: 'M4 4h6.5v6.5H4zM13.5 4H20v6.5h-6.5zM4 13.5h6.5V20H4zM13.5 13.5H20V20h-6.5z',
  unknownDevice: 'M5 5h14v14H5zM9.5 9.5h5v5h-5z',
  switch: 'M8 7h8a5 5 0 0 1 0 10H8A5 5 0 0 1 8 7ZM16 12m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0',
  climate: 'M10 13.5V5a2 2 0 1 1 4 0v8.5a4 4 0 1 1-4 0ZM12 9v8',
  lock: 'M6 11h12v9.5H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3M12 14.5v2.5',
  cover: 'M4 4h16M6 4v16M18 4v16M6 8h12M6 12h12M6 16h12',
  valve: 'M3 16h18M3 20h18M12 16V9M8 5.5h8M12 5.5V9M9.5 9h5',
  sensor:
    'M12 12m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0M7.5 16.5a6.5 6.5 0 0 1 0-9M16.5 7.5a6.5 6.5 0 0 1 0 9M4.5 19.5a10.5 10.5 0 0 1 0-15M19.5 4.5a10.5 10.5 0 0 1 0 15',
  appliance: 'M5 3.5h14v17H5zM5 8h14M8 5.75h.1M11 5.75h.1M12 14m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0',
  controller: 'M4 9.5h16v8H4zM8 17.5v2.5M16 17.5v2.5M8 13.5h.1M12 13.5h4M12 9.5V4',
  command: 'M4 12h13M12.5 6.5 18 12l-5.5 5.5M20.5 5v14',
  plan: 'M4 6h6v5H4zM14 13h6v5h-6zM10 8.5h4.5a2.5 2.5 0 0 1 2.5 2.5v2',
  tenant: 'M5 20V5h9v15M14 10h5v10M3 20h18M8 8.5h3M8 12h3M8 15.5h3',
  confirm: 'M12 3 5 6v5c0 4.5 3 8 7 10 4-2 7-5.5 7-10V6zM9 11.5l2.2 2.2L15.5 9.5',
  memory: 'M5 4.5h14v11l-4 4H5zM19 15.5h-4v4M8.5 8.5h7M8.5 12h7',
  audit: 'M6 3.5h9l4 4v13H6zM15 3.5v4h4M9 12h7M9 15.5h7',
  session: 'M4 5h16v10H4zM2.5 19h19M9.5 15v4M14.5 15v4',
  key: 'M14.5 9.5m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0M11 12.5l-7 7M6.5 17l2 2',
  people:
    'M9 8m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0M2.5 19.5c.5-3.5 3-5.5 6.5-5.5s6 2 6.5 5.5M16 5a3.2 3.2 0 0 1 0 6M18 14.5c2 .7 3.2 2.300 3.5 5',
  firmware: 'M7 7h10v10H7zM10 3.5V7M14 3.5V7M10 17v3.5M14 17v3.5M3.5 10H7M3.5 14H7M17 10h3.5M17 14h3.5',
  certificate: 'M4 4.5h16v10h-4.5M4 4.5v10h4.5M7 8h10M12 14m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0M10 16.5v4l2-1.5 2 1.5v-4',
  policy: 'M4 7h9M17 7h3M4 17h3M11 17h9M13 4.5v5M7 14.5v5',
  node: 'M4.5 4.5h15v6h-15zM4.5 13.5h15v6h-15zM7.5 7.5h2M7.5 16.5h2M13 7.5h4M13 16.5h4',
  flag: 'M5.5 21V4M5.5 5h12l-2.5 4 2.5 4h-12',
  out: 'M14 4H5v16h9M10 12h10.5M17 8.5l3.5 3.5-3.5 3.5',
  sun: 'M12 12m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0M12 2.5v2.5M12 19v2.5M2.5 12H5M19 12h2.5M5.300 5.300l1.800 1.800M16.900 16.900l1.800 1.800M5.300 18.700l1.800-1.800M16.900 7.100l1.800-1.800',
  moon: 'M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5Z',
  auto: 'M12 12m-8.5 0a8.5 8.5 0 1 0 17 0a8.5 8.5 0 1 0-17 0M12 3.5v17M12 6l5 0M12 10h8M12 14h8M12 18h5',
  menu: 'M4 6.5h16M4 12h16M4 17.5h16',
  close: 'M5.5 5.5l13 13M18.5 5.5l-13 13',
  play: 'M7.5 5v14l11-7z',
  pause: 'M8 5.5v13M16 5.5v13',
  first: 'M6 5.5v13M18.5 5.5 9.5 12l9 6.5z',
  last: 'M18 5.5v13M5.5 5.5 14.5 12l-9 6.5z',
  back: 'M15 5.5 8 12l7 6.5',
  on: 'M9 5.5 16 12l-7 6.5',
  warning: 'M12 4 2.5 20h19zM12 10v5M12 17.5v.5',
  good: 'M4.5 12.5 10 18 20 6.5',
  clock: 'M12 12m-8.5 0a8.5 8.5 0 1 0 17 0a8.5 8.5 0 1 0-17 0M12 7v5l3.5 2',
  search: 'M10.5 10.5m-6.5 0a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0-13 0M15.5 15.5 20.5 20.5',
} as const;
export type IconName = keyof typeof paths;

/** Decorative icon next to a text; hidden from screen readers. */
export const Icon = ({ name }: { name: IconName }) => (
  <svg className="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
    <path d={paths[name]} />
  </svg>
);

/** The Twinkeep logo. */
export function Mark() {
  const id = useId();
  return (
    <svg className="mark" viewBox="0 0 32 32" role="img" aria-labelledby={id}>
      <title id={id}>Twinkeep</title>
      <rect width="32" height="32" rx="9" className="mark-ground" />
      <circle cx="11.5" cy="16" r="5" className="mark-real" />
      <circle cx="20.5" cy="16" r="5" className="mark-twin" />
    </svg>
  );
}
