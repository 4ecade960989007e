import { useSession } from '../session.tsx';
import { Attention } from './attention.tsx';
import './home.css';

export function Home() {
  const { me } = useSession();
  return (
    <>
      <header className="page-head">
        <div>
          <h1>{me.user.tenant_slug ?? 'Twinkeep'}</h1>
          <p className="quiet">What happens now, and what needs you.</p>
        </div>
      </header>
      <section className="card" aria-labelledby="attention">
        <header>
          <h2 id="attention">Needs attention</h2>
        </header>
        <Attention />
      </section>
    </>
  );
}
