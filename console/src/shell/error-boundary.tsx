import { Component, type ReactNode } from 'react';
import { LoadError } from '../ui/feedback.tsx';

/**
 * Error boundary of a page or a tile: the menu, or the other tiles, stay usable if it throws. After a new build the files of an open page may no longer
 * exist; reloading fixes that.
 */
export class ErrorBoundary extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render(): ReactNode {
    return this.state.error === null ? (
      this.props.children
    ) : (
      <LoadError problem={null} retry={() => location.reload()} />
    );
  }
}
