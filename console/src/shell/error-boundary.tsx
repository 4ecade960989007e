import { Component, type ReactNode } from 'react';
import { LoadError } from '../ui/feedback.tsx';

/** A page that breaks leaves the menu standing. After a new build the files of an open page may be gone: loading it anew helps. */
export class ErrorBoundary extends Component<{ children: ReactNode }, { broken: Error | null }> {
  override state: { broken: Error | null } = { broken: null };

  static getDerivedStateFromError(broken: Error) {
    return { broken };
  }

  override render(): ReactNode {
    return this.state.broken === null ? (
      this.props.children
    ) : (
      <LoadError problem={null} retry={() => location.reload()} />
    );
  }
}
