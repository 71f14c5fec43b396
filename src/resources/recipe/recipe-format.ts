/**
 * The version of the recipes. Raise it when a recipe generates a different Dockerfile for the same source: Berth then
 * rebuilds the images that an older Berth has built.
 */
export const RECIPE_FORMAT = 2;
