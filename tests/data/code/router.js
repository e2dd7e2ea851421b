/**
 * Copyright (c) the fixture's author. All rights reserved.
 */
'use strict';

const path = require('path');

// Joins the parts of a route,
// skipping empty ones.
function join(...parts) {
  return parts.filter(Boolean).join('/');
}

/**
 * Matches a route against a pattern.
 *
 * @param {string} route what was asked for
 * @returns {boolean}
 */
const matches = (route, pattern) => pattern.test(route);

// eslint-disable-next-line no-unused-vars
const twice = function (x) { return x * 2; }, unused = 1;

/** Routes requests. */
class Router extends Map {
  static #count = 0;
  limit = 10;

  constructor(base) {
    super();
    this.base = base;
  }

  /** Adds a route. */
  add(name, handler) {
    this.set(join(this.base, name), handler);
  }

  handle = async (request) => {
    return this.get(request.url);
  };

  get size2() { return this.size * 2; }
}

Router.prototype.clear = function () {
  return new Router(this.base);
};

exports.start = function start(port) {
  function nested() { return port; }
  return nested();
};

const api = {
  list() {
    return [];
  },
  remove: async (id) => id,
};

(function () {
  function hidden(é) { return `für ${é}`; }
  exports.hidden = hidden;
})();

module.exports = { Router, api, path, matches, twice, unused };
