// Real paths without reloads: links stay links, and only plain clicks on our own are taken.

let url = $state.raw(new URL(location.href));

addEventListener("popstate", () => (url = new URL(location.href)));

export const route = {
  get path(): string {
    return url.pathname;
  },
  get search(): string {
    return url.search;
  },
};

/** Goes to a page, as a click on a link would. */
export function navigate(to: string): void {
  const next = new URL(to, location.href);
  if (next.href === location.href) return;
  history.pushState(null, "", next);
  const moved = next.pathname !== url.pathname;
  url = next;
  if (moved) scrollTo(0, 0);
}

/** Keeps a page's state in its address, without an entry in the history. */
export function replaceSearch(search: string): void {
  const next = new URL(location.href);
  next.search = search;
  if (next.href === location.href) return;
  history.replaceState(null, "", next);
  url = next;
}

/** A click anywhere in the document: navigates if it is a plain one on a link to a page of ours. */
export function follow(event: MouseEvent, isPage: (path: string) => boolean): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (!link || link.target || link.hasAttribute("download")) return;
  const to = new URL(link.href, location.href);
  if (to.origin !== location.origin || !isPage(to.pathname)) return;
  event.preventDefault();
  navigate(to.href);
}
