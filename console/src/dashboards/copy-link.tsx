import { useState } from 'react';

/** Copies the address of the page, which everybody in the tenant can open; nothing where the browser does not permit it. */
export function CopyLink() {
  const [isCopied, setCopied] = useState(false);
  if (!('clipboard' in navigator)) return null;
  return (
    <>
      <button
        type="button"
        className="button"
        onClick={() => void navigator.clipboard.writeText(location.href).then(() => setCopied(true))}
      >
        Copy link
      </button>
      <span role="status" className="quiet small">
        {isCopied ? 'Copied.' : ''}
      </span>
    </>
  );
}
