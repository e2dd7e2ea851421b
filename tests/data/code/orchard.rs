// Copyright 2024 the author of this fixture

//! Trees and what grows on them.
#![deny(missing_docs)]

use std::fmt;

/// What a tree bears.
#[derive(Debug, Clone)]
pub struct Tree<'a, T> {
    name: &'a str,
    fruit: Vec<T>,
}

impl<'a, T: Clone> Tree<'a, T> {
    /// Plants a tree.
    #[must_use]
    pub fn plant(name: &'a str) -> Self {
        Tree { name, fruit: vec![] }
    }

    const ROWS: usize = 3;
}

impl<T> fmt::Display for Tree<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}", self.name)
    }
}

/// Bears fruit.
pub trait Bearing {
    type Fruit;

    fn ripe(&self) -> bool;
}

pub enum Season {
    Spring,
    Autumn,
}

pub type Row<T> = Vec<Tree<'static, T>>;

pub const MONTHS: [&str; 2] = [
    "april",
    "september",
];

macro_rules! row {
    ($($tree:expr),*) => { vec![$($tree),*] };
}

mod tools {
    /// Cuts a branch.
    pub(crate) fn cut(length: f64) -> f64 { length / 2.0 }
}
