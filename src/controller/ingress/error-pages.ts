/** What people see in place of an App. Nothing on a page comes from a request. */

export const unknownPage = page(
  "404",
  "Nothing here",
  "No app answers for this address. Look for a slip in the domain, or in the path behind it.",
);

export const unavailablePage = page(
  "503",
  "Not available",
  "The app is stopped, or none of its containers is ready. This page is worth another try in a moment.",
);

export const brokenPage = page(
  "502",
  "No answer",
  "The app took the request and did not answer it, or could not be reached.",
);

/** `message` is text; `html` is a page of its own and stays as it is. */
export function maintenancePage(options: {
  readonly message?: string | undefined;
  readonly html?: string | undefined;
}): string {
  return (
    options.html ??
    page("503", "Maintenance", options.message ?? "The app is being worked on, and will be back.")
  );
}

function page(code: string, title: string, text: string): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${code} ${title}</title>
<style>body{font:1.1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:20vh auto;padding:0 1rem;color:#222;background:#fff}@media(prefers-color-scheme:dark){body{color:#ddd;background:#111}}small{color:#888}</style>
<h1>${title}</h1>
<p>${escapeHtml(text)}</p>
<small>${code}</small>
</html>
`;
}

function escapeHtml(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
