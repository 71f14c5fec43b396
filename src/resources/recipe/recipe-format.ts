/**
 * Raised when a generated Dockerfile comes out otherwise for the same source: images that older
 * versions of Berth built are then not taken for what this one would build.
 */
export const RECIPE_FORMAT = 1;
