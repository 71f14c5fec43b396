/** The error pages of the ingress. They contain no data of the request. */

export const unknownPage = page(
  "404",
  "Nothing here",
  "There is no app at this address. Check the spelling of the domain and of the path.",
);

export const unavailablePage = page(
  "503",
  "Not available",
  "The app is stopped, or none of its containers is ready. Try again in a moment.",
);

export const brokenPage = page(
  "502",
  "No answer",
  "The app did not answer the request, or could not be reached.",
);

/**
 * Returns the page of an App in maintenance. `message` is plain text; `html` is a complete page that is used unchanged.
 */
export function maintenancePage(options: {
  readonly message?: string | undefined;
  readonly html?: string | undefined;
}): string {
  return (
    options.html ??
    page("503", "Maintenance", options.message ?? "The app is under maintenance, and will be back.")
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
