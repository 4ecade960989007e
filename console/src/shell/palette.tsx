import { type KeyboardEvent, useDeferredValue, useEffect, useId, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import type { listDevices } from '../../../src/operations/devices/devices.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { deviceHref, deviceNameOf } from '../devices/device-name.tsx';
import { iconOfDevice } from '../devices/main-value.ts';
import type { PageEntry } from '../page-entries.ts';
import { useSession } from '../session.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Icon, type IconName } from '../ui/icons.tsx';

const MAX_SHOWN = 12;
/** Characters from which on the service searches. */
const MIN_SEARCHED = 2;

interface PaletteEntry {
  id: string;
  icon: IconName;
  title: string;
  /** Page, device or action. */
  kind: string;
  run(): void;
}

export interface PaletteAction extends Pick<PaletteEntry, 'id' | 'icon' | 'title' | 'run'> {}

interface CommandPaletteProps {
  /** The pages that the user can open. */
  pages: readonly PageEntry[];
  actions: readonly PaletteAction[];
  onClose(): void;
}

/** Entries that contain every word of the text, those that begin with the text first. */
export function matching<T extends { title: string; kind: string }>(entries: readonly T[], text: string): T[] {
  const wanted = text.trim().toLowerCase();
  const words = wanted.split(/\s+/);
  const found = entries.filter(({ title, kind }) =>
    words.every((word) => `${title} ${kind}`.toLowerCase().includes(word)),
  );
  const rank = ({ title }: T): number => (title.toLowerCase().startsWith(wanted) ? 0 : 1);
  return found.sort((a, b) => rank(a) - rank(b));
}

/** Search over pages, devices and actions: a combobox with a list (WAI-ARIA Authoring Practices). */
export function CommandPalette({ pages, actions, onClose: close }: CommandPaletteProps) {
  const { me, may } = useSession();
  const [, navigate] = useLocation();
  const [text, setText] = useState('');
  const [selected, setSelected] = useState(0);
  const [inputId, listId] = [useId(), useId()];
  const mayRead = me.has_tenant && may('user');
  const newest = useGet<ResponseBody<typeof listDevices>>('/v1/devices?limit=200', { enabled: mayRead });
  // Of a tenant with more devices the service searches all.
  const wanted = useDeferredValue(text.trim());
  const found = useGet<ResponseBody<typeof listDevices>>(`/v1/devices?limit=20&q=${encodeURIComponent(wanted)}`, {
    enabled: mayRead && wanted.length >= MIN_SEARCHED && newest.data?.next_cursor != null,
  });
  const devices = new Map(
    [...(newest.data?.devices ?? []), ...(found.data?.devices ?? [])].map((one) => [one.id, one]),
  );
  const open = (href: string) => (): void => navigate(href);
  const entries: readonly PaletteEntry[] = [
    ...pages.flatMap(({ path, label, icon }) =>
      label === undefined || icon === undefined
        ? []
        : [{ id: `page ${path}`, icon, title: label, kind: 'page', run: open(path) }],
    ),
    ...actions.map((action) => ({ ...action, kind: 'action' })),
    ...[...devices.values()].map((device) => ({
      ...{ id: device.id, icon: iconOfDevice(device.device_type), title: deviceNameOf(device), kind: 'device' },
      run: open(deviceHref(device.id)),
    })),
  ];
  const shown = matching(entries, text).slice(0, MAX_SHOWN);
  const current = Math.min(selected, Math.max(0, shown.length - 1));
  const list = useRef<HTMLUListElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: for each selection
  useEffect(() => {
    list.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' });
  }, [current]);
  const choose = (entry: PaletteEntry | undefined): void => {
    if (entry === undefined) return;
    close();
    entry.run();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    if (step !== 0 && shown.length > 0) setSelected((current + step + shown.length) % shown.length);
    else if (event.key === 'Enter') choose(shown[current]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Go to a page or device, or run an action" onClose={close}>
      <label htmlFor={inputId} className="unseen">
        Search
      </label>
      <input
        id={inputId}
        type="text"
        role="combobox"
        aria-expanded={shown.length > 0}
        aria-controls={listId}
        aria-autocomplete="list"
        {...(shown.length > 0 && { 'aria-activedescendant': `${listId}-${current}` })}
        placeholder="Page, device or action"
        autoComplete="off"
        spellCheck={false}
        value={text}
        onChange={({ target }) => {
          setText(target.value);
          setSelected(0);
        }}
        onKeyDown={onKeyDown}
      />
      {/* biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: the list of the combobox */}
      <ul id={listId} ref={list} className="palette" role="listbox" aria-label="Results">
        {shown.map((entry, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the combobox
          // biome-ignore lint/a11y/useFocusableInteractive: the focus stays in the combobox
          <li
            key={entry.id}
            id={`${listId}-${index}`}
            // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: an option of the list
            role="option"
            aria-selected={index === current}
            onClick={() => choose(entry)}
          >
            <Icon name={entry.icon} />
            <span>{entry.title}</span>
            <span className="quiet small">{entry.kind}</span>
          </li>
        ))}
      </ul>
      {shown.length === 0 && (
        <p className="quiet" role="status">
          Nothing matches.
        </p>
      )}
    </Dialog>
  );
}
