import type { Json } from "../../base/canonical-json.ts";

/**
 * Normalises host names: `Web.Example.ORG.` becomes web.example.org (RFC 4343). Caddy's own matcher ignores case, but
 * file names are case-sensitive, and Caddy has no function for lower case.
 */
export const normalizeHostRoute: { readonly [key: string]: Json } = {
  match: [{ vars_regexp: { "{http.request.hostport}": { pattern: "[A-Z]|\\.(?::[0-9]+)?$" } } }],
  handle: [
    {
      handler: "headers",
      request: {
        replace: {
          Host: [
            ...Array.from("ABCDEFGHIJKLMNOPQRSTUVWXYZ", (letter) => ({
              search: letter,
              replace: letter.toLowerCase(),
            })),
            { search_regexp: "^(.*[^.])\\.(:[0-9]+)?$", replace: "$1$2" },
          ],
        },
      },
    },
  ],
};
