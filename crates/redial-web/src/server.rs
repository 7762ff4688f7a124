//! Listens, and puts the parts together.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use tokio::net::TcpListener;

use crate::app::App;
use crate::{assets, exercise, live, playground, policies, queue, security};

/// The page's server.
pub struct Web {
    listener: TcpListener,
    router: Router,
}

impl Web {
    /// Binds an address.
    ///
    /// # Errors
    ///
    /// The address is in use, or is not one of this machine.
    pub async fn bind(address: SocketAddr, app: App) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let api = Router::new()
            .merge(exercise::routes())
            .merge(live::routes())
            .merge(playground::routes())
            .merge(policies::routes())
            .merge(queue::routes());
        let router = Router::new().nest("/api", api).fallback(assets::serve);
        let router = security::protect(router).with_state(Arc::new(app));
        Ok(Self { listener, router })
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// The system does not know it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the future is dropped.
    ///
    /// # Errors
    ///
    /// Those of axum's server.
    pub async fn serve(self) -> io::Result<()> {
        axum::serve(self.listener, self.router).await
    }
}
