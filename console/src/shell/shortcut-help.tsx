import type { PageEntry } from '../page-entries.ts';
import { Dialog } from '../ui/dialog.tsx';
import { Fact, Facts } from '../ui/values.tsx';
import { pageShortcuts } from './shortcuts.ts';

/** The keyboard shortcuts, with those of the pages that the user can open. */
export const ShortcutHelp = ({ pages, onClose: close }: { pages: readonly PageEntry[]; onClose(): void }) => (
  <Dialog title="Keyboard shortcuts" onClose={close}>
    <Facts>
      <Fact name="Search">
        <kbd>Ctrl</kbd> <kbd>K</kbd> or <kbd>⌘</kbd> <kbd>K</kbd>
      </Fact>
      <Fact name="This help">
        <kbd>?</kbd>
      </Fact>
      {pageShortcuts
        .filter(({ path }) => pages.some((page) => page.path === path))
        .map(({ key, path, title }) => (
          <Fact key={path} name={title}>
            <kbd>g</kbd> then <kbd>{key}</kbd>
          </Fact>
        ))}
      <Fact name="Full screen, in the wall view">
        <kbd>f</kbd>
      </Fact>
      <Fact name="Close a dialog">
        <kbd>Esc</kbd>
      </Fact>
    </Facts>
    <div className="actions">
      <button type="button" className="button" onClick={close}>
        Close
      </button>
    </div>
  </Dialog>
);
